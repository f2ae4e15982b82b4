"""Students' controllers: P4Runtime for their code, networks in virtual time for the entries that it installs."""
