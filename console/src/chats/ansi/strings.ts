export const strings = {
  output: 'Output',
  left: (lines: number) => (lines === 1 ? '1 earlier line is left out' : `${lines} earlier lines are left out`),
  cut: 'The beginning is left out',
  follow: 'Go to the end',
};
