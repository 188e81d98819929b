// Calls that follow each other, in one box.
import { FileText } from 'lucide-react';
import { useState } from 'react';
import type { Row } from '../state/blocks';
import { argumentLine } from '../state/text';
import type { CallView } from '../state/types';
import { strings } from '../strings';
import { RowFrame, Took, ToolRow } from './tool-row';
import styles from './tools.module.css';

export function Tools({ rows }: { rows: readonly Row[] }) {
  return (
    <div className={styles.tools}>
      {rows.map((row) =>
        row.kind === 'call' ? (
          <ToolRow key={row.call.id} call={row.call} />
        ) : (
          <Reads key={`reads ${row.calls[0]!.id}`} calls={row.calls} />
        ),
      )}
    </div>
  );
}

function Reads({ calls }: { calls: readonly CallView[] }) {
  const [open, setOpen] = useState(false);
  const number = (...names: string[]) => calls.filter((call) => names.includes(call.name)).length;
  const title = strings.reads(
    number('sandbox_read_file'),
    number('sandbox_list_directory'),
    number('sandbox_grep_files', 'sandbox_find_files'),
  );
  const names = calls.slice(0, 3).map((call) => argumentLine(call.arguments));
  const ms = calls.reduce((sum, call) => sum + (call.durationMs ?? 0), 0);
  return (
    <RowFrame
      icon={<FileText className="lucide s" />}
      verb={title}
      aside={names.filter(Boolean).join(', ') + (calls.length > 3 ? ', …' : '')}
      end={<Took ms={ms} />}
      open={open}
      onOpen={setOpen}
    >
      <div className={styles.inner}>
        {calls.map((call) => (
          <ToolRow key={call.id} call={call} />
        ))}
      </div>
    </RowFrame>
  );
}
