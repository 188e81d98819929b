// Builds a template: asks for a build, starts it, and says where it is.
import { type BuildStart, cancelBuild, deleteTemplate, type NewTemplate, requestBuild, startBuild } from '../../api';

export interface Begun {
  templateID: string;
  buildID: string;
}

export const buildPath = ({ templateID, buildID }: Begun): string => `/templates/${templateID}/builds/${buildID}`;

/** `isNew`: there is no template of this name, so that one whose first build cannot start goes again. */
export async function beginBuild(order: NewTemplate, start: BuildStart, isNew: boolean): Promise<Begun> {
  const { templateID, buildID } = await requestBuild(order);
  try {
    await startBuild(templateID, buildID, start);
  } catch (error) {
    await (isNew ? deleteTemplate(templateID) : cancelBuild(templateID, buildID)).catch(() => {});
    throw error;
  }
  remember(templateID, start);
  return { templateID, buildID };
}

/** What a template was built from last, as far as this tab knows: the server does not keep it. Never credentials. */
export interface Source {
  dockerfile?: string;
  image?: string;
  startCmd?: string;
  readyCmd?: string;
}

const MOST = 200_000;
const name = (templateID: string) => `cabana.source.${templateID}`;

function remember(templateID: string, start: BuildStart): void {
  const source: Source = {
    dockerfile: start.dockerfile ?? undefined,
    image: start.fromImage ?? undefined,
    startCmd: start.startCmd ?? undefined,
    readyCmd: start.readyCmd ?? undefined,
  };
  try {
    const text = JSON.stringify(source);
    if (text.length <= MOST) sessionStorage.setItem(name(templateID), text);
  } catch {
    // Storage is off or full: the next build begins with an empty Dockerfile.
  }
}

export function sourceOf(templateID: string): Source | null {
  try {
    const value: unknown = JSON.parse(sessionStorage.getItem(name(templateID)) ?? 'null');
    return typeof value === 'object' ? (value as Source | null) : null;
  } catch {
    return null;
  }
}
