package source_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// A source says what it has at once, and again after each change; a document
// that cannot be used leaves the one before in force.
func ExampleDir() {
	dir, err := os.MkdirTemp("", "timeouts")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, source.DocumentKey)
	_ = os.WriteFile(file, []byte(`{"schema":1,"client":"checkout"}`), 0o600)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = source.Dir(dir).Run(ctx, func(u source.Update) {
		fmt.Printf("client %q, reason %q\n", u.Document.Client, u.Reason)
		if u.Err != nil {
			cancel()
			return
		}
		_ = os.WriteFile(file, []byte(`{"schema":1,"client":`), 0o600)
	})
	fmt.Println("ended:", err)
	// Output:
	// client "checkout", reason ""
	// client "checkout", reason "InvalidUpdate"
	// ended: <nil>
}

// The document of the program stands in until the directory has one.
func ExamplePrefer() {
	builtIn, err := document.Parse([]byte(`{"schema": 1, "client": "checkout"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s := source.Prefer(source.Dir("/nowhere/timeouts"), source.Static(builtIn))
	ctx, cancel := context.WithCancel(context.Background())
	err = s.Run(ctx, func(u source.Update) {
		fmt.Println(u.Document.Client, u.Origin, u.Delivery)
		cancel()
	})
	fmt.Println(err)
	// Output:
	// checkout static Static
	// <nil>
}
