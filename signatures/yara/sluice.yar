// built: 2026-11-21T11:20:29
// The signatures of sluice.ldb and sluice.hdb once more, for YARA-X where ClamAV is not there. Tests hold both to the same samples.
import "hash"

rule Sluice_Test_EICAR {
  meta:
    virus_name = "Sluice.Test.EICAR"
  strings:
    $file = /\x58\x35\x4f\x21\x50\x25\x40\x41\x50\x5b\x34\x5c\x50\x5a\x58\x35\x34\x28\x50\x5e\x29\x37\x43\x43\x29\x37\x7d\x24\x45\x49\x43\x41\x52\x2d\x53\x54\x41\x4e\x44\x41\x52\x44\x2d\x41\x4e\x54\x49\x56\x49\x52\x55\x53\x2d\x54\x45\x53\x54\x2d\x46\x49\x4c\x45\x21\x24\x48\x2b\x48\x2a[\x09\x0a\x0d\x1a\x20]{0,60}$/
  condition:
    filesize <= 128 and $file at 0
}

rule Sluice_Test_ClamAV_Test_File {
  meta:
    virus_name = "Sluice.Test.ClamAV-Test-File"
  condition:
    filesize == 544 and hash.md5(0, filesize) == "aa15bcf478d165efd2065190eb473bcb"
}

rule Sluice_WebShell_PHP_Eval {
  meta:
    virus_name = "Sluice.WebShell.PHP.Eval"
  strings:
    $open = /<\?[pP=]/
    $call = /\b(eval|assert|create_function\s*\(\s*["']{2}\s*,)\s*\(?\s*(@?(base64_decode|gzinflate|gzuncompress|str_rot13|strrev|stripslashes|trim|urldecode|rawurldecode|hex2bin)\s*\(\s*){0,4}@?\$_(GET|POST|REQUEST|COOKIE)\s*\[/ nocase
  condition:
    $open and $call
}

rule Sluice_WebShell_PHP_Exec {
  meta:
    virus_name = "Sluice.WebShell.PHP.Exec"
  strings:
    $open = /<\?[pP=]/
    $call = /\b(system|exec|shell_exec|passthru|popen|proc_open|pcntl_exec)\s*\(\s*(@?(base64_decode|gzinflate|gzuncompress|str_rot13|strrev|stripslashes|trim|urldecode|rawurldecode|hex2bin)\s*\(\s*){0,4}@?\$_(GET|POST|REQUEST|COOKIE)\s*\[/ nocase
  condition:
    $open and $call
}

rule Sluice_WebShell_PHP_Callback {
  meta:
    virus_name = "Sluice.WebShell.PHP.Callback"
  strings:
    $open = /<\?[pP=]/
    $call = /(\bcall_user_func(_array)?\s*\(\s*@?\$_(GET|POST|REQUEST|COOKIE)\s*\[[^\]\n]{1,40}\]\s*,\s*(array\s*\(\s*)?|([{};]|<\?php|<\?=)\s*@?\$_(GET|POST|REQUEST|COOKIE)\s*\[[^\]\n]{1,40}\]\s*\(\s*)@?\$_(GET|POST|REQUEST|COOKIE)\s*\[/ nocase
  condition:
    $open and $call
}

rule Sluice_WebShell_JSP_Exec {
  meta:
    virus_name = "Sluice.WebShell.JSP.Exec"
  strings:
    $open = "<%"
    $call = /getRuntime\s*\(\s*\)\s*\.\s*exec\s*\([^;]{0,200}\brequest\s*\.\s*getParameter\s*\(/
  condition:
    $open and $call
}

rule Sluice_WebShell_ASPX_Eval {
  meta:
    virus_name = "Sluice.WebShell.ASPX.Eval"
  strings:
    $open = "<%"
    $call = /\beval\s*\(\s*Request\s*(\.\s*(Item|Form|QueryString)\s*)?[\[(]/ nocase
  condition:
    $open and $call
}

rule Sluice_WebShell_ASP_Execute {
  meta:
    virus_name = "Sluice.WebShell.ASP.Execute"
  strings:
    $open = "<%"
    $call = /\bexecute(global)?[\s(]+request\s*(\.\s*(form|querystring)\s*)?\(/ nocase
  condition:
    $open and $call
}

rule Sluice_ReverseShell_Bash {
  meta:
    virus_name = "Sluice.ReverseShell.Bash"
  strings:
    $call = /\b(ba|z|k|da)?sh\s+-i\s*(\d?>|>&|&>|\d?>&)\s*\/dev\/tcp\/[\w.:-]{3,253}\/\d{1,5}\s+(0>&1|0<&1|<&1|2>&1)/
  condition:
    $call
}

rule Sluice_ReverseShell_Python {
  meta:
    virus_name = "Sluice.ReverseShell.Python"
  strings:
    $socket = "socket.socket("
    $connect = ".connect(("
    $dup = /\bos\.dup2\(\s*\w+\.fileno\(\)\s*,\s*0\s*\).{0,200}\bos\.dup2\(\s*\w+\.fileno\(\)\s*,\s*1\s*\)/s
    $shell = /\bsubprocess\.(call|Popen|run)\(\s*\[?\s*["']\/bin\/(ba)?sh["']/
    $pty = /\bpty\.spawn\(\s*["'](\/bin\/)?(ba)?sh["']/
  condition:
    $socket and $connect and $dup and ($shell or $pty)
}

rule Sluice_ReverseShell_Netcat {
  meta:
    virus_name = "Sluice.ReverseShell.Netcat"
  strings:
    $exec = /\b(nc|ncat|netcat)\s+(-\w+\s+)*([\w.-]{3,253}\s+\d{1,5}\s+-e\s+\/bin\/(ba)?sh|-e\s+\/bin\/(ba)?sh\s+[\w.-]{3,253}\s+\d{1,5})\b/
    $fifo = /\bmkfifo\s+\/\w[\w\/.-]*\s*(;|&&).{0,80}\bcat\s+\/\w[\w\/.-]*\s*\|\s*\/bin\/(ba)?sh\s+-i\s+2>&1\s*\|\s*(nc|ncat|netcat)\s/
  condition:
    any of them
}

rule Sluice_Downloader_PowerShell {
  meta:
    virus_name = "Sluice.Downloader.PowerShell"
  strings:
    // What follows the parenthesis is anything but a quoted https URL.
    $call = /\b(iex|invoke-expression)[\s($&"']{1,8}\(?\s*new-object\s+["']?(system\.)?net\.webclient["']?\s*\)\s*\.\s*download(string|data)\s*\(\s*([^\s"']|["']([^h]|h[^t]|ht[^t]|htt[^p]|http[^s]|https[^:]))/ nocase
    $pipe = /\(?\s*new-object\s+["']?(system\.)?net\.webclient["']?\s*\)\s*\.\s*download(string|data)\s*\(\s*([^\s"']|["']([^h]|h[^t]|ht[^t]|htt[^p]|http[^s]|https[^:]))[^\n|]{1,300}\)\s*\|\s*(&\s*)?["']?(iex|invoke-expression)\b/ nocase
    $hidden = /\s-w(in(dowstyle)?)?\s+["']?(hidden|1)\b[^\n]{0,200}\b(iex|invoke-expression)[\s($&"']{1,8}\(?\s*new-object\s+["']?(system\.)?net\.webclient["']?\s*\)\s*\.\s*download(string|data)\s*\(/ nocase
  condition:
    any of them
}

rule Sluice_Downloader_VBA {
  meta:
    virus_name = "Sluice.Downloader.VBA"
  strings:
    $auto1 = "sub autoopen" nocase
    $auto2 = "sub auto_open" nocase
    $auto3 = "sub document_open" nocase
    $auto4 = "sub workbook_open" nocase
    $fetch = "urldownloadtofile" nocase
    $http = "xmlhttp" nocase
    $stream = "adodb.stream" nocase
    $shell = "wscript.shell" nocase
    $run = /\bshell\s*\(?\s*(environ|"|\w+\s*[,)&\r\n])/ nocase
  condition:
    any of ($auto*) and ($fetch or ($http and $stream)) and ($shell or $run)
}

rule Sluice_Miner_XMRig {
  meta:
    virus_name = "Sluice.Miner.XMRig"
  strings:
    $donate = "\"donate-level\""
    $pools = "\"pools\""
    $stratum = /stratum\+(tcp|ssl):\/\//
    $command = /\bxmrig\b[^\n]{0,200}\s(-o|--url)[\s=]+stratum\+(tcp|ssl):\/\// nocase
  condition:
    ($donate and $stratum and $pools) or $command
}

rule Sluice_Tool_Mimikatz {
  meta:
    virus_name = "Sluice.Tool.Mimikatz"
  strings:
    $passwords = "sekurlsa::logonpasswords" nocase
    $debug = "privilege::debug" nocase
    $sam = "lsadump::sam" nocase
    $author = "gentilkiwi" nocase
  condition:
    $passwords and any of ($debug, $sam, $author)
}

rule Sluice_Tool_Mimikatz_Program {
  meta:
    virus_name = "Sluice.Tool.Mimikatz.Program"
  strings:
    $name = "mimikatz" nocase wide
    $author = "gentilkiwi" nocase wide
    $module = "sekurlsa" nocase wide
  condition:
    uint16(0) == 0x5a4d and all of them
}
