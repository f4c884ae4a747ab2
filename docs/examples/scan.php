<?php
// Scans the file that is named first. Ends with 0 when it is clean, 1 when it is infected, 2 when there is no verdict.
$request = curl_init(getenv('SLUICE_URL') . '/api/v1/scans');
curl_setopt_array($request, [
    CURLOPT_HTTPHEADER => ['X-API-KEY: ' . getenv('SLUICE_API_KEY')],
    CURLOPT_POSTFIELDS => ['file' => new CURLFile($argv[1], 'application/octet-stream', basename($argv[1]))],
    CURLOPT_RETURNTRANSFER => true,
    CURLOPT_TIMEOUT => 120,
]);
$body = curl_exec($request);
$status = curl_getinfo($request, CURLINFO_RESPONSE_CODE);
if ($body === false || $status !== 200) {
    // 422: not fully looked at, which is not the same as clean. 429: the hour's quota is used up.
    fwrite(STDERR, "no verdict: $status " . ($body === false ? curl_error($request) : $body) . "\n");
    exit(2);
}
$verdict = json_decode($body, true);
echo $verdict['infected'] ? "infected: {$verdict['virusName']}\n" : "clean\n";
exit($verdict['infected'] ? 1 : 0);
