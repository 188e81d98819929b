// The name of a browser from what it says of itself. Pure.

const BROWSERS: readonly [RegExp, string][] = [
  [/\bEdg(?:A|iOS)?\/(\d+)/, 'Edge'],
  [/\bOPR\/(\d+)/, 'Opera'],
  [/\b(?:Firefox|FxiOS)\/(\d+)/, 'Firefox'],
  [/\b(?:Headless)?(?:Chrome|CriOS)\/(\d+)/, 'Chrome'],
  [/\bVersion\/(\d+)[\d.]* (?:Mobile\/\S+ )?Safari\//, 'Safari'],
];
const SYSTEMS: readonly [RegExp, string][] = [
  [/\biPhone|\biPad/, 'iOS'],
  [/\bAndroid/, 'Android'],
  [/\bWindows/, 'Windows'],
  [/\bMac OS X|\bMacintosh/, 'macOS'],
  [/\bCrOS/, 'ChromeOS'],
  [/\bLinux/, 'Linux'],
];

/** "Firefox 131 on Linux"; null where nothing is recognised. */
export function browserOf(agent: string): string | null {
  const text = agent.slice(0, 1000);
  const found = BROWSERS.map(([pattern, name]) => [pattern.exec(text)?.[1], name] as const).find(
    ([version]) => version,
  );
  if (!found) return null;
  const system = SYSTEMS.find(([pattern]) => pattern.test(text))?.[1];
  return `${found[1]} ${found[0]}${system ? ` on ${system}` : ''}`;
}
