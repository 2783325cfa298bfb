package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/jsonschema"
)

// tools makes the toolset's tools, whose contracts are put into canonical form
// when they are made, and the array of the contracts: the bytes that the hash
// is of.
func tools(tb testing.TB) (made []*rulvar.Tool, contracts []byte) {
	contracts = append(contracts, '[')
	for i, v := range toolset().(map[string]any)["tools"].([]any) {
		def := v.(map[string]any)
		schema, err := rulvar.SchemaLiteral(marshal(tb, def["inputSchema"]))
		if err != nil {
			tb.Fatal(err)
		}
		cfg := rulvar.ToolConfig{
			Name: def["name"].(string), Description: def["description"].(string),
			Version: def["version"].(string), Risk: rulvar.RiskWrite,
		}
		tool, err := rulvar.NewToolWithSchema(cfg, schema, func(*rulvar.ToolContext, json.RawMessage) (string, error) { return "", nil })
		if err != nil {
			tb.Fatal(err)
		}
		made = append(made, tool)
		if i > 0 {
			contracts = append(contracts, ',')
		}
		contracts = appendContract(tb, contracts, cfg, schema.JSON())
	}
	return made, append(contracts, ']')
}

func marshal(tb testing.TB, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// appendContract writes a tool's contract by the general writer.
func appendContract(tb testing.TB, dst []byte, cfg rulvar.ToolConfig, schema json.RawMessage) []byte {
	tree, err := jcs.Parse(schema)
	if err != nil {
		tb.Fatal(err)
	}
	parameters, err := jsonschema.Canonical(tree)
	if err != nil {
		tb.Fatal(err)
	}
	dst, err = jcs.AppendTree(dst, map[string]any{
		"name": cfg.Name, "description": cfg.Description, "version": cfg.Version, "parameters": parameters,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return dst
}

// BenchmarkContracts times the toolset hash as an engine takes it at every
// spawn: the canonical bytes of each contract are at hand. The bound hashes
// the same bytes in one piece.
func BenchmarkContracts(b *testing.B) {
	made, contracts := tools(b)
	b.Run("rulvar-toolset-hash", func(b *testing.B) {
		b.SetBytes(int64(len(contracts)))
		b.ReportAllocs()
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			sink += rulvar.ToolsetHash(made)[0]
		}
	})
	b.Run("sha256-bound", func(b *testing.B) {
		b.SetBytes(int64(len(contracts)))
		b.ReportAllocs()
		start := cpuTime()
		defer func() { reportCPU(b, start, 1) }()
		for b.Loop() {
			h := sha256.Sum256(contracts)
			sink += h[0]
		}
	})
}

// TestContracts holds the kept contracts to what the general writer makes of
// the same tools.
func TestContracts(t *testing.T) {
	made, contracts := tools(t)
	sum := sha256.Sum256(contracts)
	if got, want := rulvar.ToolsetHash(made), hex.EncodeToString(sum[:]); got != want {
		t.Errorf("toolset hash %s, of the contracts %s", got, want)
	}
}
