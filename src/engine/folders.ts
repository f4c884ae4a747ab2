// Which folders signatures are loaded from: those that are always loaded, and those that count when there is a database in them.
import { readdirSync } from 'node:fs';
import type { SignatureFolders } from '../config/config.js';
import { isDatabase } from './databases.js';

/** The folders that count now, in the order in which they are loaded. */
export function presentFolders({ directories, optionalDirectories }: SignatureFolders): string[] {
  return [...optionalDirectories.filter(hasDatabase), ...directories];
}

function hasDatabase(directory: string): boolean {
  try {
    return readdirSync(directory).some(isDatabase);
  } catch {
    return false;
  }
}
