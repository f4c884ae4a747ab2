// Asks as the Go libraries do: nINSTREAM over the UNIX socket, answers line by line until the end.
// Arguments: the socket. Standard input is the content.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	connection, problem := net.Dial("unix", os.Args[1])
	if problem != nil {
		panic(problem)
	}
	defer connection.Close()
	fmt.Fprint(connection, "nINSTREAM\n")
	buffer := make([]byte, 1024)
	for {
		count, problem := os.Stdin.Read(buffer)
		if count > 0 {
			binary.Write(connection, binary.BigEndian, uint32(count))
			connection.Write(buffer[:count])
		}
		if problem == io.EOF {
			break
		}
	}
	connection.Write([]byte{0, 0, 0, 0})
	lines := bufio.NewScanner(connection)
	for lines.Scan() {
		fmt.Println(lines.Text())
	}
}
