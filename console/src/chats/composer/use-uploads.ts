// Files of the box: each is uploaded at once, with its own progress and its own error.
import { useCallback, useEffect, useRef, useState } from 'react';
import { deleteAttachment, type ScreenshotPart, uploadAttachment } from '../../api';
import { bytes } from '../../format/size';
import { messageOf, toast } from '../../ui';
import { strings } from '../strings';
import type { Uploaded } from './body';

const MOST_FILES = 200;
const MOST_BYTES = 100 * 1024 * 1024;
const AT_ONCE = 3;

export interface UploadItem {
  key: number;
  name: string;
  size: number;
  state: 'waiting' | 'sending' | 'done' | 'failed';
  /** Of it, from 0 to 1. */
  sent: number;
  error?: string;
  uploaded?: Uploaded;
  shot?: Omit<ScreenshotPart, 'type' | 'attachmentId'>;
}

interface Job extends UploadItem {
  blob: Blob | null;
  abort: AbortController;
}

export interface Uploads {
  items: readonly UploadItem[];
  /** Whether some are not there yet. */
  busy: boolean;
  add: (files: readonly { name: string; file: Blob }[]) => void;
  addShot: (png: Blob, name: string, shot: UploadItem['shot']) => void;
  retry: (key: number) => void;
  remove: (key: number) => void;
  /** They belong to a message now. What is returned brings them back. */
  clear: () => () => void;
}

let nextKey = 1;

export function useUploads(initial: readonly Uploaded[]): Uploads {
  const jobs = useRef<Job[]>([]);
  const [items, setItems] = useState<readonly UploadItem[]>(() => {
    jobs.current = initial.map((uploaded) => ({
      key: nextKey++,
      name: uploaded.name,
      size: uploaded.size,
      state: 'done',
      sent: 1,
      uploaded,
      shot: uploaded.shot,
      blob: null,
      abort: new AbortController(),
    }));
    return [...jobs.current];
  });
  const gone = useRef(false);
  const draw = useCallback(() => {
    if (!gone.current) setItems(jobs.current.map(({ blob: _, abort: __, ...item }) => item));
  }, []);

  const run = useCallback(() => {
    const sending = jobs.current.filter((job) => job.state === 'sending').length;
    for (const job of jobs.current.filter((one) => one.state === 'waiting').slice(0, AT_ONCE - sending)) {
      job.state = 'sending';
      void send(job, draw).finally(() => {
        draw();
        run();
      });
    }
    draw();
  }, [draw]);

  useEffect(() => {
    gone.current = false;
    return () => {
      gone.current = true;
      for (const job of jobs.current) job.abort.abort();
    };
  }, []);

  const put = useCallback(
    (files: readonly { name: string; file: Blob; shot?: UploadItem['shot'] }[]) => {
      const room = MOST_FILES - jobs.current.length;
      if (files.length > room) toast.note(strings.tooMany(MOST_FILES));
      for (const { name, file, shot } of files.slice(0, Math.max(0, room))) {
        const tooLarge = file.size > MOST_BYTES;
        jobs.current.push({
          key: nextKey++,
          name,
          size: file.size,
          state: tooLarge ? 'failed' : 'waiting',
          sent: 0,
          error: tooLarge ? strings.tooLarge(bytes(MOST_BYTES)) : undefined,
          shot,
          blob: tooLarge ? null : file,
          abort: new AbortController(),
        });
      }
      run();
    },
    [run],
  );

  return {
    items,
    busy: items.some((item) => item.state === 'waiting' || item.state === 'sending'),
    add: put,
    addShot: useCallback((png, name, shot) => put([{ name, file: png, shot }]), [put]),
    retry: (key) => {
      const job = jobs.current.find((one) => one.key === key);
      if (!job?.blob || job.state !== 'failed') return;
      Object.assign(job, { state: 'waiting', sent: 0, error: undefined, abort: new AbortController() });
      run();
    },
    remove: (key) => {
      const job = jobs.current.find((one) => one.key === key);
      jobs.current = jobs.current.filter((one) => one !== job);
      job?.abort.abort();
      // What is not in a chat is of no use to anybody.
      if (job?.uploaded) deleteAttachment(job.uploaded.id).catch(() => {});
      draw();
    },
    clear: useCallback(() => {
      const taken = jobs.current;
      jobs.current = [];
      draw();
      return () => {
        jobs.current = [...taken, ...jobs.current];
        draw();
      };
    }, [draw]),
  };
}

async function send(job: Job, draw: () => void): Promise<void> {
  let drawn = 0;
  try {
    const attachment = await uploadAttachment(job.blob as Blob, {
      name: job.name,
      kind: job.shot ? 'screenshot' : 'upload',
      signal: job.abort.signal,
      onProgress: (part) => {
        job.sent = part;
        const now = Date.now();
        if (now - drawn < 100) return;
        drawn = now;
        draw();
      },
    });
    const { id, name, mediaType, size } = attachment;
    job.uploaded = { id, name, mediaType, size, ...(job.shot ? { shot: job.shot } : {}) };
    job.state = 'done';
    job.sent = 1;
    job.blob = null;
  } catch (error) {
    job.state = 'failed';
    job.error = messageOf(error);
  }
}
