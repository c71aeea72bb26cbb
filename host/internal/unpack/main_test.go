package unpack_test

import (
	"os"
	"testing"

	"lazaret.dev/lazaret/host/internal/unpack/unpacktest"
)

func TestMain(m *testing.M) {
	if status, is := unpacktest.Main(); is {
		os.Exit(status)
	}
	os.Exit(m.Run())
}
