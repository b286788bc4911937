package plane

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/timeout-operator/timeout-operator/api/v1alpha1"
	"github.com/timeout-operator/timeout-operator/clientlib/retryafter"
)

// Pod is whose report is written.
type Pod struct{ Namespace, Name, UID string }

// Report writes a report as its pod would: by server-side apply, past the
// admission policy and the flow control that hold for workloads. The identity is
// an impersonation of what the pod's token would say, so that ten thousand pods
// need no ten thousand tokens. clients is the JSON of the field of that name. A
// server that asks to wait is obeyed.
func (p *Plane) Report(ctx context.Context, pod Pod, clients string) error {
	body := fmt.Sprintf(`{"apiVersion":%q,"kind":"ClientReport","metadata":{"namespace":%q,"name":%q,`+
		`"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":%[3]q,"uid":%[4]q}]},`+
		`"library":{"name":"clientlib","version":"v0.1.0"},"clients":%[5]s}`,
		v1alpha1.GroupVersion.String(), pod.Namespace, pod.Name, pod.UID, clients)
	for {
		again, err := p.apply(ctx, pod, []byte(body))
		if err != nil || again == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
	}
}

// apply makes one attempt; again is how long to wait before the next one, 0 when
// it was written.
func (p *Plane) apply(ctx context.Context, pod Pod, body []byte) (again time.Duration, err error) {
	url := fmt.Sprintf("%s/apis/%s/namespaces/%s/clientreports/%s?fieldManager=%s&force=true",
		p.Server(), v1alpha1.GroupVersion, pod.Namespace, pod.Name, v1alpha1.ReporterFieldManager)
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/apply-patch+yaml")
	request.Header.Set("Impersonate-User", "system:serviceaccount:"+pod.Namespace+":default")
	request.Header["Impersonate-Group"] = []string{"system:serviceaccounts", "system:serviceaccounts:" + pod.Namespace, "system:authenticated"}
	request.Header.Set("Impersonate-Extra-authentication.kubernetes.io%2fpod-name", pod.Name)
	request.Header.Set("Impersonate-Extra-authentication.kubernetes.io%2fpod-uid", pod.UID)
	response, err := p.workload.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	switch response.StatusCode {
	case http.StatusOK, http.StatusCreated:
		return 0, nil
	case http.StatusTooManyRequests:
		return max(time.Second, retryafter.Parse(response.Header.Get("Retry-After"), time.Now(), time.Minute)), nil
	default:
		return 0, fmt.Errorf("the report of pod %s/%s is answered %s: %.300s", pod.Namespace, pod.Name, response.Status, answer)
	}
}
