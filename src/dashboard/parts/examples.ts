// Ready lines that scan a file, for the languages that integrators use most. docs/examples has them as programs that are tested.
import { eicarText } from '../scan/eicar.ts';

/** It runs as it stands, in any folder: the test file that every scanner reports comes from the line itself. */
export function curlLine(key: string): string {
  const scan = `curl -H 'X-API-KEY: ${key}' -F 'file=@-;filename=eicar.com' ${window.location.origin}/api/v1/scans`;
  return `printf %s '${eicarText()}' |\n  ${scan}`;
}

export interface Example {
  readonly language: string;
  readonly code: string;
}

export function examplesFor(key: string): readonly Example[] {
  const url = `${window.location.origin}/api/v1/scans`;
  return [
    { language: 'curl', code: curlLine(key) },
    {
      language: 'Python',
      code: `import requests

with open("report.pdf", "rb") as file:
    answer = requests.post(
        "${url}",
        headers={"X-API-KEY": "${key}"},
        files={"file": ("report.pdf", file)},
        timeout=120,
    )
answer.raise_for_status()
print("infected" if answer.json()["infected"] else "clean")`,
    },
    {
      language: 'TypeScript',
      code: `import { openAsBlob } from 'node:fs';

const form = new FormData();
form.append('file', await openAsBlob('report.pdf'), 'report.pdf');
const answer = await fetch('${url}', {
  method: 'POST',
  headers: { 'X-API-KEY': '${key}' },
  body: form,
});
if (!answer.ok) throw new Error(await answer.text());
const { infected } = (await answer.json()) as { infected: boolean };
console.log(infected ? 'infected' : 'clean');`,
    },
    {
      language: 'Go',
      code: `var body bytes.Buffer
form := multipart.NewWriter(&body)
part, _ := form.CreateFormFile("file", "report.pdf")
content, err := os.ReadFile("report.pdf")
if err != nil {
	log.Fatal(err)
}
part.Write(content)
form.Close()
request, _ := http.NewRequest("POST", "${url}", &body)
request.Header.Set("X-API-KEY", "${key}")
request.Header.Set("Content-Type", form.FormDataContentType())
answer, err := http.DefaultClient.Do(request)
if err != nil {
	log.Fatal(err)
}
defer answer.Body.Close()
io.Copy(os.Stdout, answer.Body)`,
    },
  ];
}
