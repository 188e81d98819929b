// Sizes that sliders stop at. Pure.

function withEnds(stops: number[], most: number, value: number | null): number[] {
  const all = stops.filter((stop) => stop <= most);
  if (!all.includes(most)) all.push(most);
  if (value !== null && !all.includes(value)) all.push(value);
  return all.sort((a, b) => a - b);
}

export function cpuStops(most: number, value: number | null): number[] {
  const small = Array.from({ length: 8 }, (_, i) => i + 1);
  return withEnds([...small, 10, 12, 16, 24, 32, 48, 64], most, value);
}

/** MiB. */
export function memoryStops(most: number, value: number | null): number[] {
  const stops = [128, 256, 512];
  for (let stop = 1024; stop <= 1_048_576; stop *= 2) stops.push(stop, stop * 1.5);
  return withEnds(stops, most, value);
}

/** MiB. */
export function diskStops(most: number, value: number | null): number[] {
  const stops = [512];
  for (let stop = 1024; stop <= 4_194_304; stop *= 10) stops.push(stop, stop * 2, stop * 5);
  return withEnds(stops, most, value);
}

/** The place of a value among the stops, or of the nearest. */
export function nearest(stops: readonly number[], value: number): number {
  let best = 0;
  stops.forEach((stop, i) => {
    if (Math.abs(stop - value) < Math.abs((stops[best] ?? 0) - value)) best = i;
  });
  return best;
}
