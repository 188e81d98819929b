// Names of images, and the names of the templates that are made from them. As `cabana template pull` does it. Pure.
import { strings } from './strings';

const DIGEST = /@[a-z0-9]+:[0-9a-f]{32,}$/;
const TAG = /:([\w][\w.-]{0,127})$/;

interface Image {
  /** Without tag and digest. */
  path: string;
  tag: string | null;
  hasDigest: boolean;
}

function split(image: string): Image {
  const hasDigest = DIGEST.test(image);
  const named = image.replace(DIGEST, '');
  const last = named.slice(named.lastIndexOf('/') + 1);
  const tag = TAG.exec(last)?.[1] ?? null;
  return { path: tag ? named.slice(0, -tag.length - 1) : named, tag, hasDigest };
}

/** What is wrong with an image's name; null: nothing. */
export function imageProblem(image: string): string | null {
  if (!image) return strings.wrong.noImage;
  if (/^[a-z]+:\/\//i.test(image)) return strings.wrong.imageScheme;
  if (/\s/.test(image)) return strings.wrong.image;
  const { path } = split(image);
  const parts = path.split('/');
  const isHost = parts.length > 1 && /[.:]|^localhost$/.test(parts[0] ?? '');
  const names = isHost ? parts.slice(1) : parts;
  return names.every((part) => /^[a-z0-9]+(?:[._-]+[a-z0-9]+)*$/.test(part)) ? null : strings.wrong.image;
}

/** `web:v2` for `ghcr.io/acme/web:v2`, and `web` for `web:latest`. */
export function templateNameOf(image: string): string {
  const { path, tag, hasDigest } = split(image);
  const last = path.slice(path.lastIndexOf('/') + 1).toLowerCase();
  const name = last.replace(/[^a-z0-9_]/g, '-').replace(/^-+|-+$/g, '');
  return tag && !hasDigest && tag !== 'latest' ? `${name}:${tag.toLowerCase()}` : name;
}
