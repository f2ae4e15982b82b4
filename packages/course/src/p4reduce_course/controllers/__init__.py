"""Students' controllers: P4Runtime for their code, networks in virtual time for what it installs."""
