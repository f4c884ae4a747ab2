// What is wrong with an environment, by the configuration.
import { ConfigError, readConfig } from '../../src/config/config.js';

export function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    readConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}
