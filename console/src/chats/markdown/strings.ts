// What texts of a model say beside their own words.
export const strings = {
  code: 'Text',
  codeOf: (language: string) => `Code, ${language || 'plain text'}`,
  copy: 'Copy the code',
  image: (alt: string) => (alt ? `Image: ${alt}` : 'Image'),
  task: (done: boolean) => (done ? 'Done' : 'Not done'),
  table: 'Table',
  left: (count: number) => `${count} more, not shown`,
  opens: 'opens in a new tab',
  rest: 'The rest is too long for Markdown and shown as it is.',
  cut: 'The text is longer than 1 MiB. Its end is left out.',
};
