module github.com/rulvar/rulvar-go/bench/quiet

go 1.26
