module github.com/rulvar/rulvar-go/bench/targets

go 1.26
