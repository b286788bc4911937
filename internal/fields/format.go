package fields

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// Format writes a value that [Field.Get] returned as people read it; an empty
// list is "none", a block "set", an absent value "".
func Format(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case *document.Duration:
		return v.String()
	case *int:
		return strconv.Itoa(*v)
	case *int64:
		return strconv.FormatInt(*v, 10)
	case []string:
		if len(v) == 0 {
			return "none"
		}
		return strings.Join(v, ", ")
	case []int:
		if len(v) == 0 {
			return "none"
		}
		texts := make([]string, 0, len(v))
		for _, n := range v {
			texts = append(texts, strconv.Itoa(n))
		}
		return strings.Join(texts, ", ")
	case struct{}:
		return "set"
	default:
		return fmt.Sprint(v)
	}
}
