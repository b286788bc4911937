package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// manifest is one object of a file.
type manifest struct {
	place
	object map[string]any
}

// place is where something stands in the input.
type place struct {
	// file as it was given, "stdin" for "-", and its number among all.
	file  string
	order int
	// first is the line on which the YAML document begins, from 1.
	first int
	lines *lineIndex
	// within is the path of the object in the document, for items of a List.
	within string
}

// at is "file:line" of a field; of the document where the field is not there.
func (p place) at(field string) (string, int) {
	line := p.first
	if p.lines != nil {
		line = p.first - 1 + p.lines.line(joinFields(p.within, field))
	}
	return p.file, line
}

func joinFields(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "." + b
}

// unreadable is a document that is no YAML.
type unreadable struct {
	file    string
	order   int
	line    int
	message string
}

// manifests reads every object of the given files and folders. It fails when a
// file cannot be read at all; documents with syntax errors are listed.
func (a *app) manifests(paths []string, recursive bool) ([]manifest, []unreadable, error) {
	if len(paths) == 0 {
		return nil, nil, errors.New("no input: name files or folders with -f, or - for standard input")
	}
	var all []manifest
	var bad []unreadable
	order := 0
	for _, path := range paths {
		files, err := filesOf(path, recursive)
		if err != nil {
			return nil, nil, err
		}
		for _, file := range files {
			name, data, err := a.read(file)
			if err != nil {
				return nil, nil, err
			}
			some, faults := parseFile(name, order, data)
			order++
			all = append(all, some...)
			bad = append(bad, faults...)
		}
	}
	return all, bad, nil
}

func (a *app) read(file string) (string, []byte, error) {
	if file == "-" {
		data, err := io.ReadAll(a.In)
		if err != nil {
			return "", nil, fmt.Errorf("read standard input: %w", err)
		}
		return "stdin", data, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", nil, fmt.Errorf("read -f: %w", err)
	}
	return file, data, nil
}

// filesOf lists the YAML and JSON files of a folder, in order; a file is itself.
func filesOf(path string, recursive bool) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read -f: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != path && !recursive:
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read -f: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the folder %s has no .yaml, .yml or .json file (-R looks into the folders below)", path)
	}
	return files, nil
}

// parseFile takes a file apart at its document marks.
func parseFile(name string, order int, data []byte) ([]manifest, []unreadable) {
	var all []manifest
	var bad []unreadable
	for _, doc := range splitDocuments(data) {
		if len(bytes.TrimSpace(withoutComments(doc.data))) == 0 {
			continue
		}
		object, err := parseDocument(doc.data)
		if err != nil {
			line, message := lineOfError(err)
			bad = append(bad, unreadable{file: name, order: order, line: doc.first - 1 + line, message: message})
			continue
		}
		p := place{file: name, order: order, first: doc.first, lines: newLineIndex(doc.data)}
		items, isList := object["items"].([]any)
		if kind, _ := object["kind"].(string); !isList || !strings.HasSuffix(kind, "List") {
			all = append(all, manifest{p, object})
			continue
		}
		for i, item := range items {
			p.within = fmt.Sprintf("items[%d]", i)
			if o, ok := item.(map[string]any); ok {
				all = append(all, manifest{p, o})
			}
		}
	}
	return all, bad
}

type yamlDocument struct {
	first int
	data  []byte
}

// splitDocuments cuts at lines that begin with "---"; inside a YAML document no
// such line can stand at the left margin.
func splitDocuments(data []byte) []yamlDocument {
	docs := []yamlDocument{{first: 1}}
	line := 1
	for text := range bytes.Lines(data) {
		mark := bytes.TrimRight(text, "\r\n")
		if bytes.Equal(mark, []byte("---")) || bytes.HasPrefix(mark, []byte("--- ")) {
			docs = append(docs, yamlDocument{first: line + 1})
		} else {
			last := &docs[len(docs)-1]
			last.data = append(last.data, text...)
		}
		line++
	}
	return docs
}

func withoutComments(data []byte) []byte {
	var out []byte
	for text := range bytes.Lines(data) {
		if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("#")) {
			out = append(out, text...)
		}
	}
	return out
}

// parseDocument reads YAML or JSON as kubectl does; a key that is there twice is
// an error.
func parseDocument(data []byte) (map[string]any, error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := utiljson.Unmarshal(asJSON, &object); err != nil {
		return nil, errors.New("is no object: write apiVersion, kind, metadata and spec")
	}
	return object, nil
}

var errorLine = regexp.MustCompile(`line (\d+): `)

// lineOfError takes the line out of a message of the YAML parser.
func lineOfError(err error) (int, string) {
	message := strings.Join(strings.Fields(err.Error()), " ")
	message = strings.TrimPrefix(strings.TrimPrefix(message, "error converting YAML to JSON: "), "yaml: ")
	found := errorLine.FindStringSubmatchIndex(message)
	if found == nil {
		return 1, message
	}
	line, err := strconv.Atoi(message[found[2]:found[3]])
	if err != nil {
		line = 1
	}
	return line, strings.TrimPrefix(message[:found[0]]+message[found[1]:], "unmarshal errors: ")
}
