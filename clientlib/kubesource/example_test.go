package kubesource_test

import (
	"context"
	"fmt"

	"github.com/timeout-operator/timeout-operator/clientlib"
	"github.com/timeout-operator/timeout-operator/clientlib/kubesource"
	"github.com/timeout-operator/timeout-operator/clientlib/source"
)

// In a pod: the API server, the mount while that cannot be had, and the disk
// while neither has a document.
func ExampleNew() {
	client, err := clientlib.New(context.Background(), "checkout",
		clientlib.WithSource(source.Prefer(kubesource.New("checkout"), clientlib.DefaultSource())),
		clientlib.WithCache("/var/cache/timeouts"),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println(client.Status().Delivery)
}
