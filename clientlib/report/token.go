package report

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSmallFile bounds the files that Kubernetes mounts: token, CA bundle and
// namespace.
const maxSmallFile = 1 << 20

// readSmall returns the content of a file without surrounding white space.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmallFile))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return strings.TrimSpace(string(data)), nil
}

func readToken(path string) (string, error) {
	token, err := readSmall(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the token: %w", err)
	case token == "":
		return "", fmt.Errorf("read the token: %s is empty", path)
	case strings.ContainsAny(token, "\r\n\x00"):
		return "", fmt.Errorf("read the token: %s holds more than one line", path)
	}
	return token, nil
}

// podOf reads the pod out of the claims of a bound service-account token. It
// only reads what the API server will see and check anyway. A token without
// such claims gives an empty Pod.
func podOf(token string) Pod {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Pod{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Pod{}
	}
	var claims struct {
		Kubernetes struct {
			Namespace string `json:"namespace"`
			Pod       struct {
				Name string `json:"name"`
				UID  string `json:"uid"`
			} `json:"pod"`
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return Pod{}
	}
	k := claims.Kubernetes
	return Pod{Name: k.Pod.Name, Namespace: k.Namespace, UID: k.Pod.UID}
}
