"""Generated graphs: with a known answer, or with the shape of OAG."""
