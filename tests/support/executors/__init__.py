"""Two devices with one program, one for each executor; equal inputs must give equal outputs."""
