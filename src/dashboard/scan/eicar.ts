// The test file of EICAR, which every scanner reports and which harms nobody (https://www.eicar.org/download-anti-malware-testfile/).

/** Written backwards: a scanner on the way must not take this program for the test file. */
const BACKWARDS = ['*H+H$!ELIF', '-TSET-SURIVITNA-', 'DRADNATS-RACIE', '$}7)CC7)^P(45XZP', '\\4[PA@%P!O5X'];

export function eicarText(): string {
  return [...BACKWARDS]
    .map((part) => [...part].reverse().join(''))
    .reverse()
    .join('');
}

export function eicarFile(): File {
  return new File([eicarText()], 'eicar.com', { type: 'application/octet-stream' });
}
