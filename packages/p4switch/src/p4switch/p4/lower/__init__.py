"""From checked trees to BMv2's JSON: everything is put in where it is called, and every value gets its place."""
