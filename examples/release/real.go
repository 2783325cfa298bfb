package main

import (
	"os"

	"github.com/rulvar/rulvar-go/anthropic"
	"github.com/rulvar/rulvar-go/llm"
	"github.com/rulvar/rulvar-go/openai"
)

// chooseModel takes a real model where the environment holds a key for one, and
// the local stand-in otherwise.
func chooseModel(dir string) (provider llm.Provider, model string, err error) {
	switch {
	case os.Getenv("ANTHROPIC_API_KEY") != "":
		provider, err = anthropic.New(nil)
		return provider, "anthropic:claude-opus-5-5", err
	case os.Getenv("OPENAI_API_KEY") != "":
		provider, err = openai.New(nil)
		return provider, "openai:gpt-6.2-sol", err
	}
	return &localModel{dir: dir}, "local:rules", nil
}

// stoodIn reports whether the local stand-in was the model. It asks for nothing
// twice; a real model may, and then what it asks for is done twice.
func stoodIn() bool { return os.Getenv("ANTHROPIC_API_KEY") == "" && os.Getenv("OPENAI_API_KEY") == "" }
