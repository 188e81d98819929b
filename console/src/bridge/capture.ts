// Draws what is seen of the page. Loaded by the bridge on the first capture, since the library is large.
import { type SnapdomOptions, type SnapdomPlugin, snapdom } from '@zumer/snapdom';
import { type Captured, MOST_PIXELS, type Rect } from './messages';
import { HANDOVER, type Render } from './renderer';
import { scaleFor, within } from './size';

const CLEAR = /^(transparent|rgba\(.*,\s*0\))$/;

/** What is behind a page that has no background of its own. */
function background(): string {
  for (const element of [document.documentElement, document.body]) {
    const color = element && getComputedStyle(element).backgroundColor;
    if (color && !CLEAR.test(color)) return color;
  }
  const scheme = getComputedStyle(document.documentElement).colorScheme;
  const dark =
    scheme.includes('dark') && (!scheme.includes('light') || matchMedia('(prefers-color-scheme: dark)').matches);
  return dark ? '#121212' : '#ffffff';
}

const png = (canvas: HTMLCanvasElement): Promise<Blob> =>
  new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('the picture is empty'))), 'image/png'),
  );

/**
 * The library draws the root as an element among others, through which margins of the first child would collapse, and
 * removes such margins. Of a whole page they are part of the picture: the body stands where it is.
 */
const standing: SnapdomPlugin = {
  name: 'cabana-standing',
  afterClone({ clone }) {
    const { documentElement: root, body } = document;
    const copy = clone && [...clone.children].find((child) => child.localName === 'body');
    if (!(copy instanceof HTMLElement) || !clone || !body) return;
    const top = body.getBoundingClientRect().top - root.getBoundingClientRect().top;
    clone.style.setProperty('display', 'flow-root', 'important');
    copy.style.setProperty('margin-top', `${top}px`, 'important');
    if (getComputedStyle(body).display === 'block') copy.style.setProperty('display', 'flow-root', 'important');
  },
};

/** Elements that the library keeps in the page for the next time. */
function tidy(): void {
  for (const element of document.querySelectorAll('[data-snapdom-internal]')) element.remove();
}

/** Whether the page's policy allows what the library draws with. */
const mayDraw = (): Promise<boolean> =>
  new Promise((resolve) => {
    const image = new Image();
    image.onload = () => resolve(true);
    image.onerror = () => resolve(false);
    image.src = 'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>';
  });

const render: Render = async (asked?: Rect): Promise<Captured> => {
  const viewport = { width: window.innerWidth, height: window.innerHeight };
  if (!(viewport.width > 0 && viewport.height > 0)) throw new Error('the page is not visible');
  const rect = within(viewport, asked);
  const dpr = scaleFor(rect, window.devicePixelRatio, MOST_PIXELS);
  const options: SnapdomOptions = {
    clip: { ...rect, x: rect.x + window.scrollX, y: rect.y + window.scrollY },
    scale: 1,
    dpr,
    backgroundColor: background(),
    // Lets the page go on meanwhile, and the time limit hold.
    fast: false,
    // Compares the size of each element with that in the page.
    reconcile: true,
    // Styles may have changed by scripts, which the library cannot see.
    invalidate: true,
    plugins: [standing],
  };
  if (!(await mayDraw())) throw new Error("the page's Content-Security-Policy forbids images from data:");
  const drawn = await snapdom.toCanvas(document.documentElement, options).finally(tidy);
  const bytes = await (await png(drawn)).arrayBuffer();
  return { png: bytes, width: drawn.width, height: drawn.height, dpr, rect, viewport };
};

document.currentScript?.dispatchEvent(new CustomEvent(HANDOVER, { detail: render }));
