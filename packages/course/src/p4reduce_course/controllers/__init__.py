"""Running students' controllers: their P4Runtime calls, and networks in virtual time that use their entries."""
