// Copies a text, and says so by a tick.
import { Check, Copy } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { shortId } from '../format/sandbox';
import { IconButton } from './button';

/** Works on plain HTTP too, where browsers hide the clipboard. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  area.setAttribute('readonly', '');
  area.className = 'sr';
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

export interface CopyProps {
  text: string;
  label?: string;
  size?: 'sm' | 'md';
  /** Without the size of a button, inside a line of text. */
  bare?: boolean;
}

export function CopyButton({ text, label = 'Copy', size = 'sm', bare }: CopyProps) {
  const [done, setDone] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  async function copy(): Promise<void> {
    await copyText(text);
    setDone(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setDone(false), 1500);
  }
  return (
    <IconButton label={done ? 'Copied' : label} size={size} className={bare ? 'bare' : undefined} onPress={copy}>
      {done ? <Check className="lucide copied" /> : <Copy />}
    </IconButton>
  );
}

/** An id in mono, shortened, with a button that copies all of it. */
export function Id({ id, full, label = 'Copy id' }: { id: string; full?: boolean; label?: string }) {
  return (
    <span className="id" title={id}>
      {full ? id : shortId(id)}
      <CopyButton text={id} label={label} bare />
    </span>
  );
}
