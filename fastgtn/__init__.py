"""fastgtn: learn which meta-paths matter on heterogeneous graphs."""
