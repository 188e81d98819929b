// Services for which the pane has opened by itself in this browser.
const KEY = 'cabana.seen-services';
const MOST = 300;

export function loadSeen(): string[] {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(value) ? value.filter((id) => typeof id === 'string').slice(0, MOST) : [];
  } catch {
    return [];
  }
}

export function storeSeen(ids: readonly string[]): void {
  try {
    localStorage.setItem(KEY, JSON.stringify([...ids, ...loadSeen()].slice(0, MOST)));
  } catch {
    // Storage is off: the pane opens again after a reload.
  }
}
