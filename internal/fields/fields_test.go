package fields_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
	"github.com/timeout-operator/timeout-operator/clientlib/failure"
	"github.com/timeout-operator/timeout-operator/internal/fields"
)

// leaves walks the JSON names of a struct: the path of each field that is no
// block, and of each block whose being there means something.
func leaves(of reflect.Type, path string, add func(string, reflect.Type)) {
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		at := strings.TrimPrefix(path+"."+name, ".")
		kind := of.Field(i).Type
		if kind.Kind() == reflect.Pointer && kind.Elem().Kind() == reflect.Struct {
			if at == "circuitBreaker" || at == "retry.budget" {
				add(at, kind.Elem())
			}
			leaves(kind.Elem(), at, add)
			continue
		}
		add(at, kind)
	}
}

func TestEveryFieldOfTheRulesIsListed(t *testing.T) {
	want := map[string]bool{}
	leaves(reflect.TypeFor[document.Rules](), "", func(path string, _ reflect.Type) { want[path] = true })
	got := map[string]bool{}
	for i := range fields.All {
		got[fields.All[i].Path] = true
		if fields.All[i].Default == "" {
			t.Errorf("%s has no default in words", fields.All[i].Path)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// sample is a value of a field as JSON.
func sample(of reflect.Type) string {
	switch {
	case of == reflect.TypeFor[*document.Duration]():
		return `"1s500ms"`
	case of.Kind() == reflect.Struct:
		return `{}`
	case of.Kind() == reflect.Pointer:
		return `7`
	case of == reflect.TypeFor[[]int]():
		return `[503,429]`
	case of.Kind() == reflect.Slice:
		return `["A","B"]`
	default:
		return `"Text"`
	}
}

func TestAValueSurvivesGetAndPut(t *testing.T) {
	leaves(reflect.TypeFor[document.Rules](), "", func(path string, kind reflect.Type) {
		t.Run(path, func(t *testing.T) {
			text := sample(kind)
			names := strings.Split(path, ".")
			for _, name := range slices.Backward(names) {
				text = `{"` + name + `":` + text + `}`
			}
			var rules document.Rules
			if err := json.Unmarshal([]byte(text), &rules); err != nil {
				t.Fatal(err)
			}
			found := 0
			var put document.Rules
			for i := range fields.All {
				f := &fields.All[i]
				if value := f.Get(&rules); value != nil {
					f.Put(&put, value)
					if f.Path == path {
						found++
					} else if !f.Block || !strings.HasPrefix(path, f.Path+".") {
						t.Errorf("%s is there too", f.Path)
					}
				}
			}
			data, err := json.Marshal(put)
			if err != nil || found != 1 || string(data) != text {
				t.Errorf("found %d times; got %s, want %s, %v", found, data, text, err)
			}
		})
	})
}

func TestNothingIsThereInEmptyRulesAndEmptyListsAreThere(t *testing.T) {
	for i := range fields.All {
		if value := fields.All[i].Get(&document.Rules{Timeouts: &document.Timeouts{}, Retry: &document.Retry{}}); value != nil {
			t.Errorf("%s is %v", fields.All[i].Path, value)
		}
	}
	rules := &document.Rules{Retry: &document.Retry{RetryableKinds: []string{}}}
	if fields.All[fields.RetryKinds].Get(rules) == nil {
		t.Error("an empty list is not absent")
	}
}

func TestFormat(t *testing.T) {
	second, three, big := document.Duration(1e9), 3, int64(65536)
	for _, test := range []struct {
		value any
		want  string
	}{
		{nil, ""},
		{&second, "1s"},
		{&three, "3"},
		{&big, "65536"},
		{[]string{"GET", "PUT"}, "GET, PUT"},
		{[]string{}, "none"},
		{[]int{429, 503}, "429, 503"},
		{[]int{}, "none"},
		{struct{}{}, "set"},
		{document.ScopeBody, "Body"},
	} {
		if got := fields.Format(test.value); got != test.want {
			t.Errorf("%v: got %q, want %q", test.value, got, test.want)
		}
	}
}

func TestDefaultKindsAreThoseOfTheLibrary(t *testing.T) {
	var names []string
	for _, kind := range failure.DefaultRetryable.Kinds() {
		names = append(names, kind.String())
	}
	if got := fields.All[fields.RetryKinds].Default; got != strings.Join(names, ", ") {
		t.Errorf("got %s, want %v", got, names)
	}
}
