// Runs before the first paint, so that a chosen theme does not flash. Kept in step with src/shell/theme.ts.
try {
  const theme = localStorage.getItem('cabana.theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Storage is off: the system's theme it is.
}
