package process_test

import (
	"testing"

	"github.com/rulvar/rulvar-go/internal/process/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m) }
