// Files that are dropped anywhere on the page.
import { useEffect, useEffectEvent, useState } from 'react';
import { fromDrop } from '../../pages/sandbox/files/upload';

const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') ?? false;

/** Whether files are over the page now. */
export function useDropFiles(onFiles: (files: { name: string; file: Blob }[]) => void): boolean {
  const [isOver, setOver] = useState(false);
  const take = useEffectEvent(onFiles);
  useEffect(() => {
    let depth = 0;
    const enter = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      depth += 1;
      setOver(true);
    };
    const leave = () => {
      depth = Math.max(0, depth - 1);
      if (depth === 0) setOver(false);
    };
    const over = (event: DragEvent) => {
      if (hasFiles(event)) event.preventDefault();
    };
    const drop = (event: DragEvent) => {
      depth = 0;
      setOver(false);
      // What takes files itself, such as the pane of files, has done so.
      if (!event.dataTransfer || !hasFiles(event) || event.defaultPrevented) return;
      event.preventDefault();
      void fromDrop(event.dataTransfer).then((files) => take(files));
    };
    document.addEventListener('dragenter', enter);
    document.addEventListener('dragleave', leave);
    document.addEventListener('dragover', over);
    document.addEventListener('drop', drop);
    return () => {
      document.removeEventListener('dragenter', enter);
      document.removeEventListener('dragleave', leave);
      document.removeEventListener('dragover', over);
      document.removeEventListener('drop', drop);
    };
  }, []);
  return isOver;
}
