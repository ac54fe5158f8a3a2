// Renders every case of the table with Go's text/template and sprig, and prints the result. For a YAML case, it prints the value
// parsed by sigs.k8s.io/yaml, as JSON.
//
// Built by scripts/template-table/program. Reads cases from standard input, one per line, and prints the result of each case
// before it reads the next one. The argument is a file with the data for cases that don't contain data.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

// One line of the table.
type testCase struct {
	Template   string          `json:"template,omitempty"`
	Yaml       *string         `json:"yaml,omitempty"`
	MissingKey string          `json:"missingkey,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Output     *string         `json:"output,omitempty"`
	Error      *string         `json:"error,omitempty"`
}

// Limits the capacity of lists to their length: the function slice could otherwise access the spare capacity of Go's
// slices, which is arbitrary.
func clip(value any, depth int) any {
	if depth == 0 {
		return value
	}
	switch value := value.(type) {
	case []any:
		for index := range value {
			value[index] = clip(value[index], depth-1)
		}
		return value[:len(value):len(value)]
	case map[string]any:
		for key := range value {
			value[key] = clip(value[key], depth-1)
		}
	}
	return value
}

func clipped(result reflect.Value) reflect.Value {
	switch {
	case result.Kind() == reflect.Slice && !result.IsNil():
		return result.Slice3(0, result.Len(), result.Len())
	case result.Kind() == reflect.Interface && !result.IsNil():
		inside := result.Elem()
		if list, ok := inside.Interface().([]any); ok {
			return reflect.ValueOf(&list).Elem().Slice3(0, len(list), len(list)).Convert(result.Type())
		}
		if inside.Kind() == reflect.Slice && !inside.IsNil() {
			return inside.Slice3(0, inside.Len(), inside.Len()).Convert(result.Type())
		}
	}
	return result
}

// Returns sprig's functions, wrapped so that lists have a limited capacity.
func functions() template.FuncMap {
	all := template.FuncMap(sprig.TxtFuncMap())
	for name, function := range all {
		function := reflect.ValueOf(function)
		all[name] = reflect.MakeFunc(function.Type(), func(arguments []reflect.Value) []reflect.Value {
			var results []reflect.Value
			if function.Type().IsVariadic() {
				results = function.CallSlice(arguments)
			} else {
				results = function.Call(arguments)
			}
			results[0] = clipped(results[0])
			return results
		}).Interface()
	}
	return all
}

func read(text string) (output string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return "", err
	}
	written, err := json.Marshal(value)
	return string(written), err
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
	clip(data, 100)
	engine := template.New("base").Funcs(functions())
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
		var output string
		var err error
		if one.Yaml != nil {
			output, err = read(*one.Yaml)
		} else {
			output, err = render(one, shared)
		}
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
