module github.com/rulvar/rulvar-go/bench/medians

go 1.26
