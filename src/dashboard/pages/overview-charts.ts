// The charts, as one script apart: they are more code than all other pages.
export { Months } from './overview-months.tsx';
export { Verdicts } from './overview-verdicts.tsx';
