// Package folder holds the code that control planes on any release of go-control-plane share: it follows a folder of YAML
// resources and prints lines.
package folder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Arguments are DIR [ADDRESS], after any flags: the folder, and where to listen. The program ends if they cannot be used.
func Arguments() (string, net.Listener) {
	flag.Parse()
	if flag.NArg() < 1 {
		log.Fatalf("usage: %s DIR [ADDRESS]", filepath.Base(os.Args[0]))
	}
	address := "127.0.0.1:0"
	if flag.NArg() > 1 {
		address = flag.Arg(1)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	return flag.Arg(0), listener
}

// Snapshot is made of all documents of the folder, then published.
type Snapshot interface {
	// Add takes one document: a resource with "@type".
	Add(document []byte) error
	Publish(version string) error
}

// Follow publishes the folder's *.yaml whenever their bytes differ from those published last; it looks ten times a
// second.
func Follow(dir string, empty func() Snapshot) {
	served := ""
	for ; ; time.Sleep(100 * time.Millisecond) {
		version, snapshot, err := load(dir, empty())
		if err != nil {
			log.Print(err)
			continue
		}
		if version == served {
			continue
		}
		if err := snapshot.Publish(version); err != nil {
			log.Fatal(err)
		}
		served = version
		fmt.Println("snapshot", version)
	}
}

func load(dir string, snapshot Snapshot) (string, Snapshot, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return "", nil, err
	}
	sort.Strings(files)
	all := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", nil, err
		}
		all.Write(data)
		for _, document := range bytes.Split(data, []byte("\n---\n")) {
			if err := snapshot.Add(document); err != nil {
				return "", nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return hex.EncodeToString(all.Sum(nil)[:6]), snapshot, nil
}

// Acked prints that a client accepted a response.
func Acked(typeURL string, names []string) {
	fmt.Println("ack", path.Base(typeURL), strings.Join(names, ","))
}

// Nacked prints that a client rejected one.
func Nacked(typeURL, why string) {
	fmt.Printf("nack %s %q\n", path.Base(typeURL), why)
}
