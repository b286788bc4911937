package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// What the scanner has to take, and what not; each also a seed of FuzzScan.
var (
	jsonTexts = []string{
		everything, `null`, ` true `, `false`, `""`, `[]`, `{}`, `[[],{}]`, "[1,\t2\r\n,3]", `{"b":1,"a":[{"d":null,"c":""}]}`,
		`0`, `-0`, `12`, `-1.5e+10`, `1E5`, `1e-05`, `0.10`,
		`"\u00e9\n\"\\\/"`, `"\ud83d\ude00"`, `"\ud800"`, `"é\u2028"`,
		strings.Repeat("[", maxDepth) + "0" + strings.Repeat("]", maxDepth),
	}
	otherTexts = []string{
		``, ` `, `nul`, `nulll`, `tru e`, `01`, `1.`, `.5`, `+1`, `-`, `1e`, `1e+`, `--1`, `0x10`, `Infinity`, `"`, `"\"`, `"\x"`, `"\u12"`, "\"\n\"", "\"\xff\"", "\xff",
		`[`, `[1`, `[1,`, `[1,]`, `[,1]`, `[1 2]`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{a:1}`, `{"a" 1}`, `{1:2}`, `[}`, `{]`, `1 2`, `{} x`, `'a'`,
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, "\u00a0null", "//x\nnull", strings.Repeat("[", maxDepth+1) + "0" + strings.Repeat("]", maxDepth+1),
	}
)

// The scanner takes what encoding/json takes, with the same meaning, and nothing
// else; what it does not take is explained.
func checkScan(t *testing.T, data []byte) {
	t.Helper()
	root, ok := scan(string(data))
	want, valid := byDecoder(data)
	if !ok {
		err := explain(data)
		var fault *FieldError
		if !errors.As(err, &fault) || fault.Reason == "" {
			t.Fatalf("%q is not taken, which is explained as %v", data, err)
		}
		if valid && fault.Reason == "is not JSON" {
			t.Fatalf("%q is not taken, and nobody can say why", data)
		}
		return
	}
	if !valid {
		t.Fatalf("%q is taken, and encoding/json does not", data)
	}
	if got := plainTree(&root); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q is read as\n%#v\nnot\n%#v", data, got, want)
	}
	var indented bytes.Buffer
	enc := json.NewEncoder(&indented)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(want); err != nil {
		t.Fatal(err)
	}
	if got := append(appendIndented(nil, &root, 0), '\n'); !bytes.Equal(got, indented.Bytes()) {
		t.Fatalf("%q is written as\n%s\nnot\n%s", data, got, indented.Bytes())
	}
}

func byDecoder(data []byte) (any, bool) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || !utf8.Valid(data) {
		return nil, false
	}
	_, err := dec.Token()
	return v, errors.Is(err, io.EOF)
}

func plainTree(n *node) any {
	switch n.kind {
	case kindNull:
		return nil
	case kindFalse, kindTrue:
		return n.kind == kindTrue
	case kindNumber:
		return json.Number(n.text)
	case kindText:
		return n.text
	case kindList:
		list := []any{}
		for i := range n.members {
			list = append(list, plainTree(&n.members[i].node))
		}
		return list
	default:
		object := map[string]any{}
		for i := range n.members {
			object[n.members[i].name] = plainTree(&n.members[i].node)
		}
		return object
	}
}

func TestScanTakesWhatIsJSONAndNothingElse(t *testing.T) {
	for _, text := range jsonTexts {
		if _, ok := scan(text); !ok {
			t.Errorf("%q is not taken", text)
		}
		checkScan(t, []byte(text))
	}
	for _, text := range otherTexts {
		if _, ok := scan(text); ok {
			t.Errorf("%q is taken", text)
		}
		checkScan(t, []byte(text))
	}
}

// Run with: go test -fuzz FuzzScan ./document
func FuzzScan(f *testing.F) {
	for _, text := range append(jsonTexts, otherTexts...) {
		f.Add([]byte(text))
	}
	f.Fuzz(checkScan)
}
