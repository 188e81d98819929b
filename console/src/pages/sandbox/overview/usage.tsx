// Usage now, and over the last fifteen minutes as small lines.
import { useQuery } from '@tanstack/react-query';
import type { CSSProperties } from 'react';
import { metricsQuery, type SandboxFull, type SandboxMetric } from '../../../api';
import { bytes } from '../../../format/size';
import { Link } from '../../../ui';
import { strings } from '../strings';
import local from './overview.module.css';
import { sparkPath } from './spark';

const MINUTES = 15;
const words = strings.metrics;

interface Figure {
  name: string;
  chart: number;
  value: string;
  whole: string;
  part: (metric: SandboxMetric) => number;
}

const FIGURES: ((metric: SandboxMetric) => Figure)[] = [
  (m) => ({
    name: words.cpu,
    chart: 1,
    value: `${Math.round(m.cpuUsedPct)} %`,
    whole: words.of(`${m.cpuCount} vCPU`),
    part: (x) => x.cpuUsedPct / 100,
  }),
  (m) => ({
    name: words.memory,
    chart: 2,
    value: bytes(m.memUsed),
    whole: words.of(bytes(m.memTotal)),
    part: (x) => x.memUsed / x.memTotal,
  }),
  (m) => ({
    name: words.disk,
    chart: 3,
    value: bytes(m.diskUsed),
    whole: words.of(bytes(m.diskTotal)),
    part: (x) => x.diskUsed / x.diskTotal,
  }),
];

export function Usage({ sandbox }: { sandbox: SandboxFull }) {
  const runs = (sandbox.phase || sandbox.state) === 'running';
  const id = sandbox.sandboxID;
  const { data } = useQuery({ ...metricsQuery(id, MINUTES), refetchInterval: runs ? 5000 : false, enabled: runs });
  const last = data?.at(-1);
  if (!runs) return null;
  return (
    <Link href={`/sandboxes/${id}/metrics`} className={local.usage}>
      <span className="sr">{strings.overview.usage}</span>
      {FIGURES.map((figure, i) => {
        const of = last && figure(last);
        return (
          <div className={local.figure} key={i} style={{ '--sc': `var(--chart-${i + 1})` } as CSSProperties}>
            <div className="row">
              <span className="label">{of?.name ?? [words.cpu, words.memory, words.disk][i]}</span>
              <span className={`num ${local.value}`}>
                <b>{of?.value ?? '–'}</b> {of && <span className="meta">{of.whole}</span>}
              </span>
            </div>
            <Spark metrics={data ?? []} part={of?.part} />
          </div>
        );
      })}
    </Link>
  );
}

const WIDTH = 220;
const HEIGHT = 34;

function Spark({ metrics, part }: { metrics: readonly SandboxMetric[]; part?: (metric: SandboxMetric) => number }) {
  const points = part ? metrics.map((metric) => ({ at: metric.timestampUnix, value: part(metric) })) : [];
  const end = points.at(-1)?.at ?? 0;
  const { line, area } = sparkPath(points, end - MINUTES * 60, end, WIDTH, HEIGHT);
  return (
    <svg
      className={`spark ${local.spark}`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path className="area" d={area} />
      <path d={line} />
    </svg>
  );
}
