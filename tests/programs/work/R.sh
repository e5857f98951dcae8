# Vectors, data frames, models, strings, closures and a serialised workspace.
set -eu
cat >job.R <<'END'
set.seed(5)
d <- data.frame(g = sample(letters, 60000, TRUE), x = rnorm(60000), y = runif(60000))
print(aggregate(cbind(x, y) ~ g, d, mean))
print(summary(lm(y ~ x + g, d))$coefficients[1:5, ])
m <- matrix(rnorm(250 * 250), 250)
print(sum(abs(svd(m)$d)), digits = 8)
print(round(det(crossprod(m[1:50, 1:50]) / 100), 4))
words <- paste0("w", sample(3000, 40000, TRUE))
print(head(sort(table(words), decreasing = TRUE), 10))
print(nchar(paste(gsub("w([0-9])", "\\1-", words), collapse = " ")))
l <- lapply(1:20000, function(i) list(id = i, v = seq_len(i %% 30)))
print(sum(sapply(l, function(e) sum(e$v))))
saveRDS(d, "tmp/d.rds")
print(identical(readRDS("tmp/d.rds"), d))
h <- hclust(dist(matrix(rnorm(3000), ncol = 3)))
print(table(cutree(h, 9)))
invisible(gc())
writeLines(readLines("/proc/self/maps"), "mapped/R")
END
Rscript --vanilla job.R
