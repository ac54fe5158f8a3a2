// Renders every case of the table with Go's text/template and sprig, and writes what came out.
//
// Made by scripts/template-table/program. It reads cases from standard input, a line each, and answers each before it reads the
// next. The argument is a file with the data of cases that bring none.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// One line of the table.
type testCase struct {
	Template   string          `json:"template"`
	MissingKey string          `json:"missingkey,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Output     *string         `json:"output,omitempty"`
	Error      *string         `json:"error,omitempty"`
}

func render(one testCase, shared []byte) (output string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	source := shared
	if one.Data != nil {
		source = one.Data
	}
	var data map[string]any
	if err := json.Unmarshal(source, &data); err != nil {
		return "", err
	}
	engine := template.New("base").Funcs(sprig.TxtFuncMap())
	if one.MissingKey != "" {
		engine = engine.Option("missingkey=" + one.MissingKey)
	}
	engine, err = engine.Parse(one.Template)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = engine.Execute(&text, data)
	return text.String(), err
}

func main() {
	shared := []byte("{}")
	if len(os.Args) > 1 {
		var err error
		if shared, err = os.ReadFile(os.Args[1]); err != nil {
			panic(err)
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one testCase
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			panic(err)
		}
		one.Output, one.Error = nil, nil
		output, err := render(one, shared)
		if err != nil {
			words := strings.ToValidUTF8(err.Error(), "\uFFFD")
			one.Error = &words
		} else {
			output = strings.ToValidUTF8(output, "\uFFFD")
			one.Output = &output
		}
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(one); err != nil {
			panic(err)
		}
		fmt.Print(line.String())
	}
}
