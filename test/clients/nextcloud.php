<?php
// Asks as Nextcloud's app "Antivirus for files" does: by the daemon's socket, by its port, and by ICAP with REQMOD and RESPMOD.
// Arguments: the UNIX socket, the port of clamd's protocol, the port of ICAP. Prints a line for each way and content.
[, $socket, $port, $icap] = $argv;
$contents = ['clean' => str_repeat("hello\n", 50000), 'infected' => 'X5O!P%@AP[4\PZX54(P^)7CC)7}' . '$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*'];

function daemon(string $address, string $content): string {
    $stream = stream_socket_client($address, $code, $message, 5);
    fwrite($stream, "nINSTREAM\n");
    foreach (str_split($content, 8192) as $piece) fwrite($stream, pack('N', strlen($piece)) . $piece);
    fwrite($stream, pack('N', 0));
    $answer = stream_get_contents($stream);
    fclose($stream);
    if (preg_match('/.*: (.*) FOUND$/', trim($answer))) return 'infected';
    return preg_match('/.*: OK$/', trim($answer)) ? 'clean' : "unchecked: $answer";
}

function icap(int $port, string $method, string $content): string {
    $stream = stream_socket_client("tcp://127.0.0.1:$port", $code, $message, 5);
    $request = $method === 'REQMOD' ? "PUT / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n" : "GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";
    $response = $method === 'REQMOD' ? '' : "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n";
    $sections = 'req-hdr=0, ';
    if ($response !== '') $sections .= 'res-hdr=' . strlen($request) . ', res-body=' . strlen($request . $response);
    else $sections .= 'req-body=' . strlen($request);
    fwrite($stream, "$method icap://127.0.0.1/avscan ICAP/1.0\r\nAllow: 204\r\nHost: 127.0.0.1\r\nUser-Agent: test\r\nConnection: close\r\nEncapsulated: $sections\r\n\r\n$request$response");
    foreach (str_split($content, 100000) as $piece) fwrite($stream, dechex(strlen($piece)) . "\r\n$piece\r\n");
    fwrite($stream, "0\r\n\r\n");
    $answer = stream_get_contents($stream);
    fclose($stream);
    if (preg_match('/^X-Infection-Found: (.*)\r$/m', $answer)) return 'infected';
    return preg_match('#^ICAP/1.0 20[04] #', $answer) ? 'clean' : "unchecked: $answer";
}

foreach ($contents as $name => $content) {
    echo "socket $name: ", daemon("unix://$socket", $content), "\n";
    echo "port $name: ", daemon("tcp://127.0.0.1:$port", $content), "\n";
    foreach (['REQMOD', 'RESPMOD'] as $method) echo "$method $name: ", icap((int) $icap, $method, $content), "\n";
}
