// The files of what is dropped or chosen, of folders with all that is below them. Not by the library's own way, which asks the browser for handles: those of Chromium leave out files whose names it takes for dangerous, such as shortcuts, without a word.

/** Files whose content can't be had. */
const unreadable = new WeakSet<File>();

export function isUnreadable(file: File): boolean {
  return unreadable.has(file);
}

/** Of a change of the file input, something pasted, a drop, or what is before a drop, which has no files yet. */
export async function filesIn(event: object): Promise<(File | DataTransferItem)[]> {
  if ('clipboardData' in event && event.clipboardData instanceof DataTransfer) return [...event.clipboardData.files];
  if (!('dataTransfer' in event && event.dataTransfer instanceof DataTransfer)) {
    return 'target' in event && event.target instanceof HTMLInputElement ? [...(event.target.files ?? [])] : [];
  }
  const { dataTransfer } = event;
  const items = [...dataTransfer.items].filter(({ kind }) => kind === 'file');
  if (!('type' in event && event.type === 'drop')) return items;
  // All of it before anything is waited for: they are gone afterwards.
  const dropped = items.map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  const found = await Promise.all(
    dropped.map(({ entry, file }) => {
      if (entry?.isDirectory !== true && file !== null) return [file];
      return entry === null ? [] : filesBelow(entry);
    }),
  );
  return found.flat();
}

async function filesBelow(entry: FileSystemEntry): Promise<File[]> {
  try {
    if (isFile(entry)) return [await new Promise<File>((resolve, reject) => entry.file(resolve, reject))];
    return isFolder(entry) ? await filesOfFolder(entry.createReader()) : [];
  } catch {
    const file = new File([], entry.name);
    unreadable.add(file);
    return [file];
  }
}

async function filesOfFolder(reader: FileSystemDirectoryReader): Promise<File[]> {
  const files: File[] = [];
  for (;;) {
    // A hundred at a time in Chromium.
    const entries = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return files;
    files.push(...(await Promise.all(entries.map(filesBelow))).flat());
  }
}

const isFile = (entry: FileSystemEntry): entry is FileSystemFileEntry => entry.isFile;
const isFolder = (entry: FileSystemEntry): entry is FileSystemDirectoryEntry => entry.isDirectory;
