// What is sent, from what stands in the box. Pure.
import type { ChatTool, NewMessage, Part, ScreenshotPart } from '../../api/chat-types';

export interface Uploaded {
  id: string;
  name: string;
  mediaType: string;
  size: number;
  /** Of a screenshot: what it shows. */
  shot?: Omit<ScreenshotPart, 'type' | 'attachmentId'>;
}

export const DEFAULT_TOOLS: readonly ChatTool[] = [{ type: 'sandbox' }, { type: 'services' }, { type: 'ask' }];

export const hasSandbox = (tools: readonly ChatTool[]): boolean => tools.some((tool) => tool.type === 'sandbox');

/** Tools to send: none to leave the chat's own. */
export function toolsFor(sandbox: boolean, own: readonly ChatTool[] | null): ChatTool[] | undefined {
  if (own === null) return sandbox ? undefined : [];
  if (sandbox === hasSandbox(own)) return undefined;
  return sandbox ? [...DEFAULT_TOOLS, ...own.filter((tool) => tool.type === 'function')] : [];
}

const isPicture = (mediaType: string) => /^image\/(png|jpeg|gif|webp)$/.test(mediaType);

/** A text with files, or parts where there is more to say of them. */
export function messageOf(
  text: string,
  files: readonly Uploaded[],
): Pick<NewMessage, 'prompt' | 'content' | 'attachments'> {
  const words = text.trim();
  const plain = files.every((file) => !file.shot);
  if (plain && words)
    return files.length > 0 ? { prompt: words, attachments: files.map((file) => file.id) } : { prompt: words };
  const parts: Part[] = words ? [{ type: 'text', text: words }] : [];
  for (const file of files) {
    if (file.shot) parts.push({ type: 'screenshot', attachmentId: file.id, ...file.shot });
    else if (isPicture(file.mediaType)) parts.push({ type: 'image', attachmentId: file.id });
    else parts.push({ type: 'file', attachmentId: file.id, name: file.name });
  }
  return { content: parts };
}

/** What a person said before, to say it once more. */
export function repeated(content: readonly Part[]): Pick<NewMessage, 'content'> {
  return {
    content: content.flatMap((part): Part[] => {
      if (part.type === 'file') return [{ type: 'file', attachmentId: part.attachmentId, name: part.name }];
      return part.type === 'text' || part.type === 'image' || part.type === 'screenshot' ? [part] : [];
    }),
  };
}

/** "0.03", "< 0.01"; null where no price is known. */
export function costText(micros: number | null): string | null {
  if (micros === null) return null;
  if (micros > 0 && micros < 10_000) return '< 0.01';
  return (micros / 1_000_000).toFixed(2);
}
