// `npm run bench:signatures -- DIR`: a folder of signatures of real size that anybody can make: the project's own, and made-up ones beside them, the same on each machine.
import { resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { ownSignaturesDirectory } from '../src/paths.js';
import { makeDatabase } from './database.js';

const count = z.coerce.number().int().min(0);
const settings = z.object({
  logical: count,
  extended: count,
  fileHashes: count,
  sectionHashes: count,
  beside: z.string(),
});

const command = new Command('npm run bench:signatures --')
  .description('Makes a folder of signatures for the benches: made-up ones, the same on each machine.')
  .argument('<dir>', 'the folder, which is not there yet')
  .option('--logical <count>', 'logical signatures: strings, wildcards, regular expressions', '39000')
  .option('--extended <count>', 'extended signatures, of one pattern each; ClamAV has some ten thousands', '0')
  .option('--file-hashes <count>', 'hashes of files; ClamAV has 2.3 million', '228000')
  .option('--section-hashes <count>', 'hashes of sections of programs; ClamAV has 4.2 million', '0')
  .option('--beside <dir>', 'signatures that are copied beside them, .gz unpacked', ownSignaturesDirectory)
  .parse();
const { beside, ...generated } = settings.parse(command.opts());
const target = resolve(command.processedArgs[0]);
await makeDatabase(resolve(beside), generated, target);
process.stdout.write(`${target} has the signatures: npm run bench -- --signatures ${target}\n`);
