// Docs writes the generated parts of the documentation. It is run from
// internal/cli by go generate.
package main

import (
	"fmt"
	"os"

	"github.com/timeout-operator/timeout-operator/internal/cli"
)

func main() {
	if err := write("../../docs/adapters.md"); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fresh, err := cli.AdaptersPage(string(page))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(fresh), 0o644)
}
