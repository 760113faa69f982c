"""The joined meta-path model: path scores of pairs, their screening, and a log-linear model over them."""
