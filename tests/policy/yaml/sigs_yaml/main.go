// Command sigs_yaml answers what sigs.k8s.io/yaml makes of documents: kubectl and the SIG
// descheduler read files with it. It writes answers.jsonl anew, of the documents in it:
//
//	go run . < answers.jsonl > new.jsonl && mv new.jsonl answers.jsonl
package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"

	"sigs.k8s.io/yaml"
)

type answer struct {
	YAML  string `json:"yaml"`
	JSON  string `json:"json,omitempty"`
	Error string `json:"error,omitempty"`
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		var asked answer
		if err := in.Decode(&asked); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		said := answer{YAML: asked.YAML}
		if converted, err := yaml.YAMLToJSON([]byte(asked.YAML)); err != nil {
			said.Error = err.Error()
		} else {
			said.JSON = string(converted)
		}
		if err := out.Encode(said); err != nil {
			log.Fatal(err)
		}
	}
}
