// The charts, as one script apart: they are more code than all other pages.
export { Use } from './overview-days.tsx';
export { Hours } from './overview-hours.tsx';
export { Verdicts } from './overview-verdicts.tsx';
